package locktest

import "testing"

func TestDevBubble(t *testing.T) { t.Parallel(); Exercise(t, InBubble()) }
func TestDevRedis(t *testing.T) { t.Parallel(); Exercise(t, OnRedis()) }
