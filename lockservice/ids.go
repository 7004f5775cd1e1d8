package lockservice

import (
	"bufio"
	"crypto/rand"
	"sync"

	"github.com/google/uuid"
)

// ids makes the ids of acquisitions. They are time-ordered, so that records and
// logs read in order. Randomness is fetched from the system for many at once.
type ids struct {
	mu     sync.Mutex // guards the reader
	random *bufio.Reader
}

func newIDs() *ids { return &ids{random: bufio.NewReaderSize(rand.Reader, 1024)} }

func (g *ids) next() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, err := uuid.NewV7FromReader(g.random)
	if err != nil {
		id = uuid.New()
	}
	return id.String()
}
