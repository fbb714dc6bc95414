package admin_test

import (
	"context"
	"fmt"

	"github.com/perdure/perdure/admin"
)

// The newest key signs, and the others verify until they are revoked.
func ExampleClient_RotateKey() {
	engine, stop := newEngine()
	defer stop()
	ctx, op := context.Background(), admin.New(engine)

	for _, reason := range []string{"the first", "once a year"} {
		if err := op.RotateKey(ctx, admin.Note{By: "ada", Reason: reason}); err != nil {
			fmt.Println(err)
		}
	}
	keys, err := op.Keys(ctx)
	for _, k := range keys {
		fmt.Println(admin.Key(k).Note.Reason, k.Signs)
	}
	fmt.Println(err, op.RevokeKey(ctx, keys[0].ID, admin.Note{By: "ada", Reason: "it leaked"}))
	keys, err = op.Keys(ctx)
	fmt.Println(len(keys), err, op.RevokeKey(ctx, "nobody", admin.Note{}))
	// Output:
	// the first false
	// once a year true
	// <nil> <nil>
	// 1 <nil> perdure: revoke key nobody: no key has this ID (perdure keys list shows the keys)
}
