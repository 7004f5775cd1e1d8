package fencing_test

import (
	"errors"
	"fmt"
	"sync"

	"github.com/redislockservice/redislockservice/lockservice/fencing"
)

// A map as a storage without transactions: the check and the write stand under
// the same mutex.
func ExampleHighest() {
	var mu sync.Mutex // guards highest and settings, as one step
	var highest fencing.Highest
	settings := map[string]string{}

	set := func(token int64, key, value string) error {
		mu.Lock()
		defer mu.Unlock()
		if err := highest.Check(token); err != nil {
			return err
		}
		settings[key] = value
		return nil
	}

	fmt.Println(set(41, "limit", "by the old holder"))
	fmt.Println(set(42, "limit", "by the new holder"))
	err := set(41, "limit", "by the old holder, after its pause")
	fmt.Println(errors.Is(err, fencing.ErrStaleToken), err)
	fmt.Println(settings["limit"])
	// Output:
	// <nil>
	// <nil>
	// true fencing: stale token: 41 is older than 42
	// by the new holder
}

// The statement for those who create tables by migrations.
func ExampleGuard_DDL() {
	guard, err := fencing.New(fencing.MySQL, fencing.WithTable("billing_fence"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(guard.DDL())
	// Output:
	// CREATE TABLE IF NOT EXISTS billing_fence (
	// 	resource      VARBINARY(512) NOT NULL PRIMARY KEY,
	// 	highest_token BIGINT NOT NULL
	// ) ENGINE=InnoDB
}
