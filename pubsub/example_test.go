package pubsub_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/redislockservice/redislockservice/pubsub"
)

// One service per process; everything that subscribes shares its connection.
func Example() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx := context.Background()
	service, err := pubsub.New(ctx, client)
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()

	handled := make(chan struct{})
	subscription, err := service.Subscribe(ctx, "prices", pubsub.Handler{
		Message: func(payload string) { fmt.Println("new price:", payload); close(handled) },
		Down:    func(err error) { fmt.Println("messages may be missing:", err) },
		Up:      func() { fmt.Println("subscribed again: read the prices anew") },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer subscription.Close()

	if err := service.Publish(ctx, "prices", "42"); err != nil {
		log.Fatal(err)
	}
	<-handled
	// Output: new price: 42
}
