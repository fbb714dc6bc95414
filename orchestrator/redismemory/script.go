package redismemory

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// The fields of a hash are data, version and parent of the state, the token of the last lock, and
// until when that is held, in microseconds of the server's clock. Numbers are formatted by hand,
// because Lua writes large ones with an exponent.

// look begins the scripts that need the lock.
const look = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local is = redis.call('HMGET', KEYS[1], 'token', 'until', 'version', 'parent')
local held = tonumber(is[2] or 0) > now
`

var (
	// A token is above the one before, and above those that the server has lost.
	lock = redis.NewScript(look + `
if held then return 0 end
local token = math.max(tonumber(is[1] or 0) + 1, now)
redis.call('HSET', KEYS[1], 'token', string.format('%.0f', token),
	'until', string.format('%.0f', now + ARGV[1]))
return token
`)

	unlock = redis.NewScript(look + `
if not held or is[1] ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'until', 0)
return 1
`)

	// The arguments are the token, the version before, the next version, data, the parent or
	// nothing, and whether the subject is in the set of the parent, which is 0 or 1.
	write = redis.NewScript(look + `
if not held or is[1] ~= ARGV[1] then return 'fenced' end
if (is[3] or '0') ~= ARGV[2] then return 'conflict' end
local parent = is[4] or ''
if ARGV[5] ~= '' and ARGV[5] ~= parent then
	if ARGV[6] == '0' then return 'list' end
	parent = ARGV[5]
end
if redis.call('PTTL', KEYS[1]) > 0 then redis.call('PERSIST', KEYS[1]) end
redis.call('HSET', KEYS[1], 'version', ARGV[3], 'data', ARGV[4], 'parent', parent)
return 'written'
`)

	expire = redis.NewScript(look + `
if not held or is[1] ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
`)

	// Reads are scripts too, because a client may send a plain read to a replica.
	read = redis.NewScript(`
local is = redis.call('HMGET', KEYS[1], 'data', 'version')
return is[2] and is or {}
`)
	members = redis.NewScript(`return redis.call('SMEMBERS', KEYS[1])`)
	list    = redis.NewScript(`return redis.call('SADD', KEYS[1], ARGV[1])`)
)

// isOf returns 1 if a subject has that parent, which is written with a state only. It is sent as it
// is, since a pipeline cannot fall back from a hash.
const isOf = `return redis.call('HGET', KEYS[1], 'parent') == ARGV[1] and 1 or 0`

// run executes a script on a key.
func (m *Memory[T]) run(ctx context.Context, s *redis.Script, key string, args ...any) *redis.Cmd {
	cmd, err := within(ctx, func() (*redis.Cmd, error) {
		return s.Run(ctx, once{m.client}, []string{key}, args...), nil
	})
	if err != nil {
		cmd = redis.NewCmd(ctx)
		cmd.SetErr(err)
	}
	return cmd
}

// within calls f, and waits for it until the context ends. The client itself does not hear of a
// cancel while it waits for an answer, nor of a deadline by default.
func within[R any](ctx context.Context, f func() (R, error)) (R, error) {
	type result struct {
		value R
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case got := <-done:
		return got.value, got.err
	case <-ctx.Done():
		return *new(R), ctx.Err()
	}
}

// A once is a client whose scripts are sent once. A script that the server does not know has not
// been executed, so its text may follow its hash.
type once struct{ redis.UniversalClient }

func (o once) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return o.send(ctx, "eval", script, keys[0], args)
}

func (o once) EvalSha(ctx context.Context, hash string, keys []string, args ...any) *redis.Cmd {
	return o.send(ctx, "evalsha", hash, keys[0], args)
}

func (o once) send(ctx context.Context, name, script, key string, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, append([]any{name, script, 1, key}, args...)...)
	_ = o.Process(ctx, single{cmd}) // the command has the error
	return cmd
}

// A single is a command that the client does not send again.
type single struct{ *redis.Cmd }

// NoRetry reports that.
func (single) NoRetry() bool { return true }
