package chaos

import "sync"

// Storage is what locks are for: something that several processes read, change
// and write back. Each name has two cells. The fenced one refuses whoever comes
// with a token older than the newest it has seen; the other believes everybody,
// and is there to show that the run would notice a lost update.
type Storage struct {
	mu    sync.Mutex // guards the field below
	cells map[string]*cell
}

type cell struct {
	highest int64  // token
	head    string // the write that is the current value
	lost    int
	refused int
	writes  int
}

// Access is a request to a [Storage]: to read a cell, or to replace the value
// that was read, Base, by the value ID.
type Access struct {
	Name   string `json:"n"`
	Fenced bool   `json:"f,omitempty"`
	Write  bool   `json:"w,omitempty"`
	Token  int64  `json:"t,omitempty"`
	Base   string `json:"b,omitempty"`
	ID     string `json:"id,omitempty"`
}

// Answer of a [Storage]. Head is the value that was read.
type Answer struct {
	Refused bool   `json:"r,omitempty"`
	Head    string `json:"h,omitempty"`
}

// Totals of one kind of cells.
type Totals struct {
	Writes  int // accepted
	Refused int // reads and writes with an old token
	Lost    int // updates that a later write, based on an older value, has undone
}

// Do serves one request. The token is judged in the same step as the access; a
// read shows its token too, or an older holder could still write after a newer
// one has read.
func (s *Storage) Do(a Access) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cellLocked(a.Name, a.Fenced)
	if a.Fenced {
		if a.Token < c.highest {
			c.refused++
			return Answer{Refused: true}
		}
		c.highest = a.Token
	}
	if a.Write {
		if a.Base != c.head {
			c.lost++
		}
		c.head = a.ID
		c.writes++
	}
	return Answer{Head: c.head}
}

func (s *Storage) cellLocked(name string, fenced bool) *cell {
	key := "open/" + name
	if fenced {
		key = "fenced/" + name
	}
	if s.cells == nil {
		s.cells = make(map[string]*cell)
	}
	if s.cells[key] == nil {
		s.cells[key] = new(cell)
	}
	return s.cells[key]
}

// Totals sums up the fenced cells, or the others.
func (s *Storage) Totals(fenced bool) Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	var t Totals
	for key, c := range s.cells {
		if (key[0] == 'f') != fenced {
			continue
		}
		t.Writes += c.writes
		t.Refused += c.refused
		t.Lost += c.lost
	}
	return t
}
