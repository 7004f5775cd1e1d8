package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

const (
	// label marks every container of this package, so that the ones of an
	// interrupted run can be found and removed.
	label = "org.redislockservice.redistest"
	// leftoverAge is more than any test run takes: younger ones may be in use.
	leftoverAge = time.Hour

	redisPort = "6379/tcp"
	dataDir   = "/data/"
)

// docker is the connection to the engine that all containers of the process share.
type docker struct {
	client *testcontainers.DockerClient
	image  string // what containers run: REDIS_IMAGE or its stand-in
}

// connectDocker runs once per process; its answer, also a failure, stands.
var connectDocker = sync.OnceValues(func() (*docker, error) {
	setTestcontainersEnv()
	ctx, cancel := context.WithTimeout(context.Background(), imageTimeout)
	defer cancel()
	cli, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("no Docker engine: %w", err)
	}
	d := &docker{client: cli}
	if d.image, err = d.findImage(ctx, wantedImage()); err != nil {
		return nil, errors.Join(err, cli.Close())
	}
	d.sweep(ctx)
	return d, nil
})

// setTestcontainersEnv must come before the first use of testcontainers, which reads
// its configuration once. What the caller of the tests has set is left alone.
func setTestcontainersEnv() {
	// Its reaper is one more image to pull; containers are removed by this package.
	setenvDefault("TESTCONTAINERS_RYUK_DISABLED", "true")
	// Ports are published on the loopback interface. In a container that runs an
	// engine of its own, testcontainers would look for them on the bridge.
	setenvDefault("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
	log.SetDefault(log.NewNoopLogger())
}

func setenvDefault(name, value string) {
	if os.Getenv(name) == "" {
		_ = os.Setenv(name, value) // fails only for names with "=" or NUL
	}
}

// sweep removes the containers that interrupted runs left behind. It is best effort:
// another process may sweep at the same time, and a failure hurts no test.
func (d *docker) sweep(ctx context.Context) {
	found, err := d.client.ContainerList(ctx, client.ContainerListOptions{
		All:     true,
		Filters: make(client.Filters).Add("label", label),
	})
	if err != nil {
		return
	}
	for _, c := range found.Items {
		if time.Since(time.Unix(c.Created, 0)) > leftoverAge {
			_ = d.removeContainer(ctx, c.ID)
		}
	}
}

// removeContainer also removes its volumes. That it's gone already is fine.
func (d *docker) removeContainer(ctx context.Context, id string) error {
	_, err := d.client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// redisContainer runs redis-server in a container with a fixed port. Its data live
// in the container's anonymous volume, and go with it.
type redisContainer struct {
	port   int
	args   []string
	docker *docker
	ctr    testcontainers.Container // nil before the first start and after wipe
}

func newContainer(port int, args []string) *redisContainer {
	return &redisContainer{port: port, args: args}
}

func (c *redisContainer) String() string { return "container of " + c.docker.image }

func (c *redisContainer) start(ctx context.Context) error {
	if c.ctr == nil {
		return c.create(ctx)
	}
	_, err := c.docker.client.ContainerStart(ctx, c.ctr.GetContainerID(), client.ContainerStartOptions{})
	return err
}

func (c *redisContainer) create(ctx context.Context) (err error) {
	if c.docker, err = connectDocker(); err != nil {
		return err
	}
	// A container whose port is taken exists nevertheless: it is kept, for remove.
	c.ctr, err = testcontainers.Run(ctx, c.docker.image,
		testcontainers.WithLogger(log.NewNoopLogger()),
		testcontainers.WithExposedPorts(redisPort),
		testcontainers.WithHostConfigModifier(c.publish),
		testcontainers.WithLabels(map[string]string{label: "true"}),
		testcontainers.WithCmd(slices.Concat([]string{"redis-server"}, c.args)...),
	)
	return err
}

// publish binds the container's port to a fixed one: with the usual dynamic ports,
// each restart would give another.
func (c *redisContainer) publish(host *container.HostConfig) {
	host.PortBindings = network.PortMap{
		network.MustParsePort(redisPort): {{
			HostIP:   netip.AddrFrom4([4]byte{127, 0, 0, 1}),
			HostPort: strconv.Itoa(c.port),
		}},
	}
}

// stop waits as long as ctx allows for a server that saves its data. In its first
// millisecond the server has no handler for SIGTERM yet, and as process 1 of its
// container it then ignores it; the engine kills it after those ten seconds.
func (c *redisContainer) stop(ctx context.Context, kill bool) error {
	grace := 10
	if kill {
		grace = 0
	}
	_, err := c.docker.client.ContainerStop(ctx, c.ctr.GetContainerID(), client.ContainerStopOptions{Timeout: &grace})
	return err
}

func (c *redisContainer) pause(ctx context.Context) error {
	_, err := c.docker.client.ContainerPause(ctx, c.ctr.GetContainerID(), client.ContainerPauseOptions{})
	return err
}

func (c *redisContainer) unpause(ctx context.Context) error {
	_, err := c.docker.client.ContainerUnpause(ctx, c.ctr.GetContainerID(), client.ContainerUnpauseOptions{})
	return err
}

// wipe removes the container: the next start makes a new one, with a new volume.
func (c *redisContainer) wipe(ctx context.Context) error { return c.remove(ctx) }

func (c *redisContainer) readData(ctx context.Context, file string) ([]byte, error) {
	content, err := c.ctr.CopyFileFromContainer(ctx, dataDir+file)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return io.ReadAll(content)
}

func (c *redisContainer) writeData(ctx context.Context, file string, content []byte) error {
	return c.ctr.CopyToContainer(ctx, content, dataDir+file, 0o644)
}

func (c *redisContainer) remove(ctx context.Context) error {
	if c.ctr == nil {
		return nil
	}
	if err := c.docker.removeContainer(ctx, c.ctr.GetContainerID()); err != nil {
		return err
	}
	c.ctr = nil
	return nil
}
