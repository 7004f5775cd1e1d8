package conform

import (
	"testing"

	"github.com/redislockservice/redislockservice/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
