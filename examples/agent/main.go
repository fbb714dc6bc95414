// Command agent answers questions with a language model that uses tools. No call is paid for
// twice.
package main

import (
	"github.com/perdure/perdure/app"
	"github.com/perdure/perdure/examples/agent/assistant"
)

// Agent answers a question, and Research does the research for it.
var Agent, Research = assistant.New(provider{})

func main() { app.Main(Agent, Research) }
