package sim

// The direct grant of docs/decisions/0013, in its smallest form: a mark names the first
// who waits to write, the releaser writes that one as the next owner, and the node finds
// it in the record. It is here because what breaks it is worth keeping.
var directGrant = mutant{"a releaser writes the next owner, also in a hold-off", []edit{
	{lanePath + "effects.go", "import (\n\t\"fmt\"", "import (\n\t\"encoding/json\"\n\t\"strconv\"\n\t\"fmt\""},
	{lanePath + "effects.go", "\t\tw.tell()\n", "\t\tw.tell()\n\t\tp.invite(name, w)\n"},
	{lanePath + "effects.go", "if w := p.recs[name]; w.dirty {", "if w := p.recs[name]; w.dirty {\n\t\t\tp.grantTo(name, w)"},
	{lanePath + "effects.go", "// markLasts is how many", directGrantCode + "// markLasts is how many"},
}}

const directGrantCode = `
func (p *plan) invite(name string, w *work) {
	if !w.dirty {
		return
	}
	var first *op
	if q := p.l.parked.names[name]; q != nil {
		first = p.firstLeft(q.writers)
	}
	for _, o := range p.arrived {
		if first == nil && o.wants(name, lockrules.Write) {
			first = o
		}
	}
	w.rec.Waiting = slices.Clone(w.rec.Waiting)
	for i := range w.rec.Waiting {
		m := &w.rec.Waiting[i]
		if m.Node != p.l.cfg.Node {
			continue
		}
		m.Extra = nil
		if first != nil && len(first.names) == 1 && len(first.req.Chain) == 0 {
			m.Extra = map[string]json.RawMessage{"next": json.RawMessage(strconv.Quote(first.req.ID))}
		}
	}
}

func (p *plan) grantTo(name string, w *work) {
	ms := p.now.Millis()
	if !w.opened || lockrules.HeldByAnybody(w.rec, ms) {
		return
	}
	nodes := p.wakes(name, w)
	for i := range w.rec.Waiting {
		m := &w.rec.Waiting[i]
		if len(nodes) != 1 || m.Node != nodes[0] || m.Extra["next"] == nil {
			continue
		}
		id, _ := strconv.Unquote(string(m.Extra["next"]))
		offer := lockrules.Millis(1000)
		end, token := ms+offer, max(int64(p.now), w.rec.FencingToken+1)
		w.rec.FencingToken = token
		w.rec.WriteOwner = &lockrules.Holding{ID: id, Node: m.Node, AcquiredAt: ms, ExpiresAt: &end,
			LeaseMillis: offer, FencingToken: token}
		m.Extra = nil
	}
}

`
