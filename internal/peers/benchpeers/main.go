package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

func main() {
	if rig.Child(map[string]rig.Role{peerRole: runWorker, rig.EtcdRole: rig.RunEtcd}) {
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	only := flag.String("only", "", "measure these peers only, by key, with commas")
	which := flag.String("jobs", "a,b,c,c-long,d,d-loop,d-mixed,e,f,g", "measure these jobs")
	isShort := flag.Bool("short", os.Getenv("SHORT") != "", "about a minute, and less exact")
	rounds := flag.Int("rounds", 0, "how many rounds, if not the usual number")
	jsonFile := flag.String("json", "", "write every round's figures to this file")
	doc := flag.String("doc", "", "put the tables between the marks of this file")
	from := flag.String("from", "", "measure nothing, make the tables of this JSON file anew")
	flag.Parse()
	if *from != "" {
		return again(*from, *doc)
	}
	l := full
	if *isShort {
		l = short
	}
	if *rounds > 0 {
		l.Rounds = *rounds
	}
	report, err := measureAll(l, chosenJobs(*which), strings.Split(*which, ","), chosenPeers(*only))
	if err != nil {
		return err
	}
	return errors.Join(report.publish(*jsonFile, *doc), report.failures())
}

func chosenPeers(only string) []kind {
	if only == "" {
		return kinds
	}
	keys := strings.Split(only, ",")
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return !slices.Contains(keys, k.Key) })
}

func chosenJobs(which string) []job {
	keys := strings.Split(which, ",")
	return slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return !slices.Contains(keys, j.key) })
}

func measureAll(l limits, jobs []job, keys []string, peers []kind) (*report, error) {
	began := time.Now()
	b, err := newBench(l)
	if err != nil {
		return nil, err
	}
	defer b.close()
	var held []heldServer
	if slices.Contains(keys, "f") {
		held, err = startHeld(peers)
		for _, s := range held {
			defer s.close() //nolint:gocritic,revive // all end when the function does
		}
		if err != nil {
			return nil, err
		}
	}
	b.rounds(jobs, peers)
	b.jobF(held)
	return newReport(b, time.Since(began)), nil
}
