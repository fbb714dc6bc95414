// Command agent answers questions with a language model that uses tools. No call is paid for
// twice.
package main

import (
	"github.com/perdure/perdure/app"
	"github.com/perdure/perdure/examples/agent/assistant"
)

// Agent answers a question, Session many, and Research does the research for them.
var Agent, Session, Research = assistant.New(provider{})

func main() { app.Main(Agent, Session, Research) }
