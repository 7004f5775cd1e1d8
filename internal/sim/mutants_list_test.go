package sim

// A mutant is a mistake that somebody could make. The suite has to find it: what
// no test notices, no test protects. The product has no switches for them: the
// compiler is given another version of the file.
type mutant struct {
	name  string
	edits []edit
}

type edit struct{ file, from, to string }

func change(name, file, from, to string) mutant { return mutant{name, []edit{{file, from, to}}} }

const (
	lanePath   = "internal/lane/"
	rulesPath  = "internal/lockrules/"
	leasePath  = "internal/lease/"
	redisxPath = "internal/redistx/"
	graphPath  = "deadlock/"
	api        = "lockservice/"
)

// The texts to be replaced are short, so that they outlive changes around them.
// Each has to occur once in its file.
var mutants = []mutant{
	// Transactions.
	change("no WATCH", redisxPath+"commands.go", "p.batch = append(p.batch, b.Watch().Key(keys...).Build())", "p.batch = append(p.batch, b.Watch().Key(\"unwatched\").Build())"),
	change("a conflict counts as a commit", lanePath+"carry.go", "\t\tcase committed:", "\t\tcase committed || true:"),
	change("an unknown outcome counts as a commit", lanePath+"carry.go", "\t\tcase err != nil:\n\t\t\tl.fail(b, p, err, background)\n\t\t\treturn\n\t\tcase committed:", "\t\tcase err != nil:\n\t\t\tl.snap = p.s\n\t\t\tl.answer(p)\n\t\t\tl.snap = nil\n\t\t\treturn\n\t\tcase committed:"),
	change("an old snapshot answers who is refused", lanePath+"carry.go", "if p.writes.Empty() && ahead", "if false && ahead"),
	change("a corrupt record is an empty one", lanePath+"snapshot.go", "return &entry{err: &Corrupt{Key: key, Err: err}}\n\t}\n\treturn &entry{key: key, rec: rec", "return &entry{rec: lockrules.Empty(name)}\n\t}\n\treturn &entry{key: key, rec: rec"),

	// Trust and leases.
	change("trust counts from the reply", lanePath+"snapshot.go", "asked: asked, replied: replied", "asked: replied, replied: replied"),
	change("trust forgets that Redis' clock is cut", leasePath+"lease.go", "min(MinMargin, lease/4), min(cut, lease))", "min(MinMargin, lease/4))"),
	change("trust is longer than the lease", leasePath+"lease.go", "return asked + lease - Margin(lease)", "return asked + lease + Margin(lease)"),
	change("code starts on what is left of a late grant", api+"acquire.go", "if lease.Worthwhile(", "if true || lease.Worthwhile("),
	change("a lapse is judged by the reader's own idea of a lease", rulesPath+"record.go", "return h != nil && now < h.end(now)", "return h != nil && now < h.AcquiredAt+h.LeaseMillis"),
	{"a renewal is bounded by the deadline that it would bring", []edit{
		{api + "acquisition.go", "return !a.lose(now, a.overReason(now), nil) && a.state.Load() == stateHeld", "return false"},
		{api + "acquisition.go", "if a.state.Load() != stateHeld || now >= time.Duration(a.trustEnd.Load()) {", "if a.state.Load() != stateHeld || now >= end {"},
		{api + "keeper.go", "if now >= time.Duration(a.trustEnd.Load()) {", "if now >= time.Duration(a.trustEnd.Load())+a.lease {"},
		{api + "keeper.go", "time.Duration(a.trustEnd.Load())-now)", "time.Duration(a.trustEnd.Load())-now+a.lease)"},
		{api + "keeper.go", "stop := min(next, time.Duration(a.trustEnd.Load()))", "stop := next"},
	}},
	change("a renewal brings a lapsed holding back", rulesPath+"release.go", "|| !h.Alive(now) || h.Renewals", "|| h.Renewals"),
	change("a renewal makes a missing record anew", rulesPath+"release.go", "\tfor i := range recs {\n\t\th, _ := recs[i].find(ren.ID)\n\t\tif h == nil ||", "\tfor i := range recs {\n\t\th, _ := recs[i].find(ren.ID)\n\t\tif h == nil && recs[i].WriteOwner == nil && ren.Seen > 0 {\n\t\t\trecs[i].WriteOwner = &Holding{ID: ren.ID, AcquiredAt: now, LeaseMillis: ren.LeaseMillis}\n\t\t\th = recs[i].WriteOwner\n\t\t\th.Renewals = ren.Seen\n\t\t\tend := now + ren.LeaseMillis\n\t\t\th.ExpiresAt = &end\n\t\t}\n\t\tif h == nil ||"),
	change("a renewal takes an older record for its own", rulesPath+"release.go", " || h.Renewals < ren.Seen", ""),
	change("a renewal doesn't notice another run of the server", lanePath+"effects.go", "case p.s.seen.RunID != o.runID:", "case false:"),

	// Releases and withdrawals.
	change("a release doesn't look whose lock it is", rulesPath+"release.go", "\tcase h == nil:\n\t\treturn rec, Missing, false", "\tcase h == nil && rec.WriteOwner != nil:\n\t\tc := rec.clone()\n\t\tc.WriteOwner = nil\n\t\treturn c, Done, true\n\tcase h == nil:\n\t\treturn rec, Missing, false"),
	change("a release lets go of the first lock only", lanePath+"effects.go", "\tout := outcome{met: lockrules.Done}\n\tfor _, name := range o.names {", "\tout := outcome{met: lockrules.Done}\n\tfor _, name := range o.names[:1] {"),
	change("clean-up needs the caller's context", api+"finish.go", "context.WithTimeout(context.WithoutCancel(ctx), a.svc.cfg.opTimeout)\n\tdefer cancel()\n\tleft :=", "context.WithTimeout(ctx, a.svc.cfg.opTimeout)\n\tdefer cancel()\n\tif ctx.Err() != nil {\n\t\treturn lockrules.Done\n\t}\n\tleft :="),
	{"a withdrawal doesn't write", []edit{
		{lanePath + "queue.go", "u.gone, u.force = true, true", "u.gone, u.force = true, false"},
		{lanePath + "plan.go", "p.l.doubt[name]; doubt {", "p.l.doubt[name]; doubt && false {"},
	}},
	change("what a caller who has left was granted stays granted", lanePath+"answer.go", "l.goneLocked(a, a.out.granted)", "l.goneLocked(a, false)"),

	// Restarts and lost data.
	change("no hold-off", lanePath+"plan.go", "\tif p.standing.Until > ms {", "\tif false {"),
	change("no hold-off after a restart with its data", rulesPath+"server.go", "OtherServer, now+next.LeaseMillis, &next", "OtherServer, now, &next"),
	change("no hold-off after a loss of data", rulesPath+"server.go", "case remembered == nil && known:", "case false:"),
	change("no hold-off while the server is young", rulesPath+"server.go", "up < lease+1000 {", "up < 0 {"),
	change("the uptime is taken for exact", rulesPath+"server.go", "up < lease+1000 {\n\t\tif ready := now + lease + 1000 - up;", "up < lease {\n\t\tif ready := now + lease - up;"),

	// The rules of who may have a lock.
	change("readers overtake waiting writers", rulesPath+"grant.go", "if want == Read && !ownsIt {", "if want == Read && !ownsIt && want == Write {"),
	change("an upgrade waits for its own read lock", rulesPath+"grant.go", "return id == a.ID || slices.Contains(a.Chain, id)", "return id == a.ID && slices.Contains([]string{id}, id)"),
	change("tokens start from the record alone", rulesPath+"grant.go", "token = int64(now)", "token = 1"),
	change("tokens are the time alone", rulesPath+"grant.go", "token = max(token, recs[i].FencingToken+1)", "_ = recs[i]"),

	// Waiting.
	change("a mark never lapses", rulesPath+"record.go", "func (m *Mark) Alive(now Millis) bool { return now < m.end(now) }", "func (m *Mark) Alive(now Millis) bool { return true }"),
	change("a mark stays when its waiter leaves", lanePath+"carry.go", "\t\tfor _, name := range o.names {\n\t\t\tl.touched[name] = struct{}{}\n\t\t}", ""),
	change("no poll", lanePath+"form.go", "return l.cfg.PollDelay - l.cfg.Jitter", "return 1000*time.Hour - l.cfg.Jitter"),
	change("nobody is told of a release", lanePath+"effects.go", "\t\tif !w.opened {", "\t\tif true {"),
	change("a waiter is granted after its deadline", lanePath+"handover.go", "\tif p.t >= o.patience {\n\t\treturn false", "\tif p.t >= o.patience+1<<62 {\n\t\treturn false"),
	change("nobody looks again when the subscription is back", api+"service.go", "\t\tUp:      s.lane.WakeAll,\n", ""),
	change("nobody is told who waits when the subscription is back", api+"detector.go", "\td.ask[\"\"] = struct{}{}\n\td.answer = true\n", ""),

	// Jobs.
	change("a job trusts one answer for as long as it may run", api+"acquisition.go", "return min(lease, s.cfg.lease)", "return lease"),
	change("a job's lock lasts a lease, and atLeast is seen to at its end", api+"acquire.go", "LeaseMillis: lockrules.Millis(r.lease.Milliseconds())", "LeaseMillis: lockrules.Millis(min(r.lease, s.cfg.lease).Milliseconds())"),

	// Deadlocks.
	change("a reader waits for writers that it goes past", api+"detector.go", "b.Since < w.Since.Millis()", "true"),
	change("deadlocks have no victim", api+"confirm.go", "mine = append(mine, key.ID)", "_ = key.ID"),
	change("a victim isn't confirmed against the records", api+"confirm.go", "no, yes := d.recordsConfirm(dl.Cycle)", "no, yes := d.recordsConfirm(dl.Cycle)\n\t\tyes = true"),
	change("the victim is the last to have tried again", api+"detector.go", "SinceMicros: int64(w.Since)", "SinceMicros: time.Now().UnixMicro()"),
	change("each node takes a member of its own for the victim", graphPath+"victim.go", "func (d Deadlock) VictimKey() Key { return d.Cycle[d.Victim].Key() }", "func (d Deadlock) VictimKey() Key { return d.Cycle[(d.Victim+1)%len(d.Cycle)].Key() }"),
	change("readers wait for readers", graphPath+"graph.go", "g.join(i, &p.write, p.writeHolders)", "g.join(i, &p.all, p.holders)"),
	change("no edge to a waiting writer", graphPath+"graph.go", "\t\tg.join(i, &p.queue, p.queued)\n", ""),

	// Whose turn it is.
	change("nobody is let go first", rulesPath+"fair.go", "if m.Node == self || !m.Alive(now) || !starves(m.Since, now)", "if true || m.Node == self || !m.Alive(now) || !starves(m.Since, now)"),
	change("a reader never passes a writer", rulesPath+"fair.go", "return a.elder(writer) && starves(a.Since, now)", "return false && a.elder(writer) && starves(a.Since, now)"),
	change("a turn is kept for who doesn't take it", lanePath+"turns.go", "until: p.t + grace}", "until: p.t + 1000*grace}"),

	directGrant,

	// What an exchange reads, and when.
	change("a renewal waits for others for too long", lanePath+"gather.go", "o.queuedAt + l.cfg.Gather", "o.queuedAt + 1000*l.cfg.Gather"),
	change("what INFO said counts for ever", redisxPath+"conn.go", "now.Sub(c.asked) < identityLasts", "now.After(c.asked)"),
	change("a foreign type is a missing key", redisxPath+"answers.go", "if there != 0 {", "if there < 0 {"),
}
