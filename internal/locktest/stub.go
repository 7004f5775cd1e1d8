package locktest

var loss, restarts, tokens, info, input, foreign, closing, sharing, crowds []scenario
