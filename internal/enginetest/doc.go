// Package enginetest is empty: its folders have the tests of the engine through package
// perdure, one folder for each theme.
//
//   - steps: starts, steps and their retries, values, variables, transactions, shared commits
//   - replay: what a run does again after a crash, of the same build and of another one
//   - waiting: signals and the inbox, timers, unload, crowds of runs that wait
//   - ends: failures, cancels, timeouts, clean-ups, children, chains, decided runs
//   - operators: dead letters, retries of runs, parked runs, reports, retention
//   - observers: listeners, events, observers
//   - cluster: several engines, leases, orders that meet the loss of one
//   - faults: killed processes, disks and stores that fail, damaged journals, code that panics
//   - races: random calls against random programs, judged by a model
//   - patterns: definitions and their issues, arguments, policies, graphs, statuses
//
// Package world has what they share.
package enginetest
