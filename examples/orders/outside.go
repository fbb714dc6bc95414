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
	"github.com/perdure/perdure/examples/orders/order"
)

// errRefused is registered, so errors.Is finds it in the error of a run after a crash too.
var errRefused = errors.New("the carrier does not go to Antarctica")

func init() {
	if err := perdure.RegisterError("orders.refused", errRefused); err != nil {
		log.Fatalln(err)
	}
}

// The warehouse, the bank and the carrier are a file with a line for each thing that they
// did. The file outlives this program, as real services do.
var (
	outside = "outside.txt"
	pace    = time.Second // of an answer
	mu      sync.Mutex
)

// shop does one thing for an order, once for each key. The carrier refuses Antarctica. The
// first answer to each charge is lost.
func shop(_ context.Context, key, action string, o order.Order) (string, error) {
	time.Sleep(pace)
	if action == "ship" && o.Country == "AQ" {
		return "", perdure.Permanent(errRefused)
	}
	mu.Lock()
	defer mu.Unlock()
	f, err := os.OpenFile(outside, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line := fmt.Sprintln(action, o.ID, o.Cents, "cents", key)
	done, err := io.ReadAll(f)
	if err != nil || strings.Contains(string(done), line) {
		return action + "-" + o.ID, err
	}
	log.Println(action, o.ID)
	if _, err = f.WriteString(line); err == nil && action == "charge" {
		err = errors.New("the bank's answer was lost")
	}
	return action + "-" + o.ID, err
}
