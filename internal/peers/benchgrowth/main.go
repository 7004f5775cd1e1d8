package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

func main() {
	if rig.Child(map[string]rig.Role{workerRole: runWorker}) {
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	g := &growth{limits: full}
	isShort := flag.Bool("short", os.Getenv("SHORT") != "", "less exact")
	only := flag.String("sweeps", "", "measure these only, with commas")
	dir := flag.String("dir", "", "write the pictures and growth.json to this folder")
	doc := flag.String("doc", "", "put the tables between the marks of this file")
	draw := flag.String("draw", "", "measure nothing, draw the growth.json of this folder anew")
	flag.StringVar(&g.profiles, "profile", "", "write profiles to this folder")
	flag.Parse()
	if *isShort {
		g.limits = short
	}
	chosen := chosenSweeps(*only)
	if *draw != "" {
		return g.redraw(*draw, *doc)
	}
	var err error
	if g.redis, err = rig.StartRedis(); err != nil {
		return err
	}
	defer g.redis.Close()
	if err := g.rounds(chosen); err != nil {
		return err
	}
	return g.publish(chosen, *dir, *doc)
}

func chosenSweeps(only string) []sweep {
	if only == "" {
		return sweeps
	}
	keys := strings.Split(only, ",")
	return slices.DeleteFunc(slices.Clone(sweeps), func(s sweep) bool { return !slices.Contains(keys, s.key) })
}

func (g *growth) publish(chosen []sweep, dir, doc string) error {
	fmt.Print(g.markdown(chosen, false))
	if doc != "" {
		if err := rig.ReplaceIn(doc, "bench-growth", g.markdown(chosen, true)); err != nil {
			return err
		}
	}
	if dir == "" {
		return nil
	}
	return g.write(dir, chosen)
}
