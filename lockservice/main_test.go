package lockservice_test

import (
	"flag"
	"testing"

	"github.com/redislockservice/redislockservice/internal/redistest"
)

// parallel is how many tests run at a time, unless the command says something
// else. Most of their time they wait for leases and servers, so it is more than
// there are cores on a small machine.
const parallel = "4"

func TestMain(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		_ = flag.Set("test.parallel", parallel)
	}
	redistest.Main(m)
}
