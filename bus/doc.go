// Package bus takes events in from brokers and sends events out to them.
package bus
