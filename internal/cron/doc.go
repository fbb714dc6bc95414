// Package cron evaluates cron expressions in time zones.
//
// An expression names times of the wall clock, and the wall clock jumps: in spring it skips an
// hour, in autumn it shows one twice. The rules are those of Vixie's cron. If the hour is fixed, a
// skipped time fires once, right after the gap, and a time that comes twice fires the first time.
// If the hour is a wildcard, such as * or */2, the expression follows the elapsed time: it fires at
// each instant at which the clock shows such a time.
//
// Time zones come from the system, or else from the copy that is linked into the program.
package cron
