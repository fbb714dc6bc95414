package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/agent/assistant"
)

// script has the replies of the fake model, turn by turn.
var script = []assistant.Reply{
	{Tool: "research", Text: "teapots", Tokens: 120},
	{Tool: "math", Text: "6*7", Tokens: 40},
	{Tool: "search", Text: "tea", Tokens: 60},
	{Tool: "mail", Text: "buy tea", Tokens: 80},
	{Text: "42 teapots", Tokens: 100},
}

var (
	bill = "bill.txt"             // has a line for each paid call, and outlives this program
	pace = 500 * time.Millisecond // of an answer
	mu   sync.Mutex
)

// provider is a fake model with its tools.
type provider struct{}

// Think asks the fake model. The first answer to each turn with an even number is lost.
func (provider) Think(ctx context.Context, key string, talk []string, budget int) (assistant.Reply,
	error) {
	reply, last := script[(len(talk)-1)%len(script)], talk[len(talk)-1]
	if _, came, ordered := strings.Cut(last, "order 12 teapots: "); ordered {
		reply = assistant.Reply{Text: came, Tokens: 50}
	} else if strings.HasPrefix(last, "order") {
		reply = assistant.Reply{Tool: "order", Text: "12 teapots", Tokens: 90}
	}
	if reply.Tokens > budget {
		return assistant.Reply{Text: "the budget is spent"}, nil
	}
	paid, err := pay(key, fmt.Sprint(reply.Tokens, " tokens"))
	for _, word := range strings.Fields(reply.Tool + " " + reply.Text) {
		err = errors.Join(err, assistant.Words.Push(ctx, word))
	}
	if err == nil && paid && len(talk)%2 == 0 {
		err = perdure.RetryAfter(200*time.Millisecond, errors.New("the model's answer was lost"))
	}
	return reply, err
}

// Use uses a tool.
func (provider) Use(_ context.Context, key, tool, text string) (string, error) {
	_, err := pay(key, tool+" "+text)
	return "done", err
}

// pay pays for a call, once for each key. It reports whether it has paid now.
func pay(key, call string) (paid bool, err error) {
	time.Sleep(pace)
	mu.Lock()
	defer mu.Unlock()
	f, err := os.OpenFile(bill, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return false, err
	}
	defer f.Close()
	line := call + " " + key + "\n"
	before, err := io.ReadAll(f)
	if err != nil || strings.Contains(string(before), line) {
		return false, err
	}
	log.Println("paid", call)
	_, err = f.WriteString(line)
	return true, err
}
