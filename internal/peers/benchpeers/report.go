package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// report is what is written as JSON, and what the tables are made from.
type report struct {
	Cores   int      `json:"cores"`
	Go      string   `json:"go"`
	Redis   string   `json:"redis"`
	Rounds  int      `json:"rounds"`
	Took    float64  `json:"tookSeconds"`
	Samples []sample `json:"samples"`
}

func newReport(b *bench, took time.Duration) *report {
	version := "unknown"
	if info, err := b.redis.Info("server"); err == nil {
		_, rest, _ := strings.Cut(info, "redis_version:")
		version, _, _ = strings.Cut(rest, "\r\n")
	}
	return &report{
		Cores: runtime.NumCPU(), Go: runtime.Version(), Redis: version,
		Rounds: b.limits.Rounds, Took: took.Seconds(), Samples: b.samples,
	}
}

// median is over the rounds; ok is false if the peer wasn't measured.
func (r *report) median(job, peer, value string) (m float64, ok bool) {
	var all []float64
	for _, s := range r.Samples {
		if v, has := s.Values[value]; has && s.Job == job && s.Peer == peer {
			all = append(all, v)
		}
	}
	return rig.Median(all), len(all) > 0
}

// why tells why a peer wasn't measured.
func (r *report) why(job, peer string) string {
	for _, s := range r.Samples {
		if s.Job == job && s.Peer == peer && s.Why != "" {
			return s.Why
		}
	}
	return ""
}

// best is the best of the peers, without this library and the floors.
func (r *report) best(job string, c column) (key string, value float64) {
	for _, k := range kinds {
		v, ok := r.median(job, k.Key, c.value)
		if !ok || !r.compared(k, c) {
			continue
		}
		if key == "" || c.better(v, value) {
			key, value = k.Key, v
		}
	}
	return key, value
}

// compared tells whether a library's figure is one to compare ours with.
func (r *report) compared(k kind, c column) bool {
	return !k.Ours && !k.Floor && (k.Renews || !c.renews)
}

// failures are measurements of this library that came to nothing: then the run fails.
func (r *report) failures() error {
	var errs []error
	for _, s := range r.Samples {
		if s.Peer == oursKey && s.Why != "" {
			errs = append(errs, fmt.Errorf("job %s, round %d: %s", s.Job, s.Round, s.Why))
		}
	}
	return errors.Join(errs...)
}

func (r *report) publish(jsonFile, doc string) error {
	text := r.markdown()
	fmt.Print(text)
	if doc != "" {
		if err := rig.ReplaceIn(doc, "bench-peers", text); err != nil {
			return err
		}
	}
	if jsonFile == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(jsonFile, append(data, '\n'), 0o644)
}

// again makes the tables of an earlier run.
func again(file, doc string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	r := new(report)
	if err := json.Unmarshal(data, r); err != nil {
		return err
	}
	return r.publish("", doc)
}
