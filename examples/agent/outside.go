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
)

// A Say is what the model says: use a tool, or, without one, an answer.
type Say struct {
	Tool, Text string
	Tokens     int
}

// script is what the fake model says, turn by turn.
var script = []Say{{"research", "teapots", 120}, {"math", "6*7", 40}, {"search", "tea", 60}, {"mail", "buy tea", 80}, {"", "42 teapots", 100}}

var (
	bill = "bill.txt"             // has a line for each call that was paid for, and outlives this program
	pace = 500 * time.Millisecond // of an answer
	mu   sync.Mutex
)

// think asks the model, whose first answer to each turn with an even number is lost.
func think(ctx context.Context, talk []string, budget int) (Say, error) {
	say := script[len(talk)-1]
	if say.Tokens > budget {
		return Say{Text: "the budget is spent"}, nil
	}
	fresh, err := pay(ctx, fmt.Sprint(say.Tokens, " tokens"))
	if err == nil && fresh && len(talk)%2 == 0 {
		err = perdure.RetryAfter(200*time.Millisecond, errors.New("the model's answer was lost"))
	}
	return say, err
}

// pay pays for a call, once for each key, and says whether this was the time.
func pay(ctx context.Context, what string) (fresh bool, err error) {
	time.Sleep(pace)
	mu.Lock()
	defer mu.Unlock()
	f, err := os.OpenFile(bill, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return false, err
	}
	defer f.Close()
	line := what + " " + perdure.IdempotencyKey(ctx) + "\n"
	paid, err := io.ReadAll(f)
	if err != nil || strings.Contains(string(paid), line) {
		return false, err
	}
	log.Println("paid", what)
	_, err = f.WriteString(line)
	return true, err
}
