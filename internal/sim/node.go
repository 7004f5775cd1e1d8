package sim

// node is a process, as far as the server and the network know it.
type node struct {
	name   string
	killed chan struct{} // closed by Kill, with Redis.mu held

	// Guarded by Redis.mu.
	paused        chan struct{} // non-nil while paused; closed by Resume
	connected     bool          // the subscription connection is up
	connecting    bool          // a goroutine tries to get it up again
	generation    int           // counts the losses of the subscription connection
	deliveries    int
	commands      [3]int
	subscriptions []*subscription
}

// Pause holds back all replies and messages to the node until Resume. Its
// timers run on, so a caller may run into its deadline.
func (p *Port) Pause() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.node.paused == nil {
		p.r.facts[NodePaused]++
		p.node.paused = make(chan struct{})
	}
}

// Resume lets everything through that was held back.
func (p *Port) Resume() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.node.resumeLocked()
}

func (n *node) resumeLocked() {
	if n.paused != nil {
		close(n.paused)
		n.paused = nil
	}
}

// Paused says whether the node is.
func (p *Port) Paused() bool {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	return p.node.paused != nil
}

// Kill is the crash of the node: no reply and no message reaches it any more,
// and its port only returns errors, with the cause [ErrKilled]. What it has sent
// may be applied yet. Its connections stay open on the server until then.
func (p *Port) Kill() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if isClosed(p.node.killed) {
		return
	}
	p.r.facts[NodeCrashed]++
	close(p.node.killed)
	p.node.resumeLocked()
}

// Killed says whether the node has crashed.
func (p *Port) Killed() bool { return isClosed(p.node.killed) }

// awake returns when the node is not paused.
func (n *node) awake(r *Redis) {
	for {
		r.mu.Lock()
		paused := n.paused
		r.mu.Unlock()
		if paused == nil {
			return
		}
		<-paused
	}
}
