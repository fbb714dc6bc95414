// Package stream has durable streams beside a run: what a step puts out while it goes on, such as
// the answer of a model, for readers who do not want to wait for the result.
//
//	var Answer = stream.New[string]("answer")
//
// The body of a step appends chunks. Any process that has the store reads them from an offset on,
// or follows the stream until the run ends.
//
//	perdure.Step(ctx, "ask", func(ctx context.Context) (string, error) {
//		for word := range model.Ask(ctx, question) {
//			if err := Answer.Push(ctx, word); err != nil {
//				return "", err
//			}
//		}
//		...
//	})
//
//	for c, err := range Answer.Follow(ctx, client, runID, 0) {
//		...
//	}
//
// # What is promised
//
//   - A chunk is an entry of the run's journal: durable, in order, and kept as long as the run. Its
//     offset is the sequence of the entry. So offsets rise, have gaps, and never change.
//   - [Stream.Append] returns when the chunk is durable. Appends of many runs share commits.
//     [Stream.Push] does not wait: its chunk is durable at the latest when the step's result is.
//   - What one attempt of a step has put into a stream is a part of it ([Chunk.Part]). The output
//     of a step is that of its last attempt, however that ended. When the next attempt begins,
//     because the attempt before failed or its process died, the part is void. A reader gets the
//     parts that count. One who has read chunks of a part that is void since gets a chunk with Void
//     set, which has no value and names the part: drop what you have of it.
//   - A replay appends nothing.
//   - A run that retries another one, or was forked, has the output of the steps that it keeps,
//     under offsets of its own.
//
// Several steps of a run, also at the same time, may write one stream: each has parts of its own.
//
// # Limits
//
// A chunk has at most [MaxChunk] bytes, and the streams of one run have at most
// perdure.Options.MaxStreams bytes together. Beyond that, the error has the code too_large. A
// perdure.StepTx writes no stream, because nothing becomes durable before its transaction does. In
// workflow code the error has the code misuse.
//
// A run that continues as new ends, and its successor has streams of its own.
package stream
