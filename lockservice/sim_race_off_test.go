//go:build !race

package lockservice

const simRace = false
