package sample

import (
	"encoding/json"

	"github.com/perdure/perdure"
)

// The contracts of inputs, as JSON Schema: the dashboard makes its forms from them.
const (
	nameInput = `{"type": "string", "title": "Name", "minLength": 1, "default": "Ada"}`

	themeInput = `{"type": "string", "title": "Theme", "default": "the sea"}`

	expenseInput = `{"type": "object", "required": ["by", "cents"], "properties": {
		"by": {"type": "string", "title": "Who wants it back", "minLength": 1, "default": "Ada"},
		"cents": {"type": "integer", "title": "Cents", "minimum": 1, "default": 4200}}}`

	dayInput = `{"type": "object", "required": ["date"], "properties": {
		"date": {"type": "string", "title": "Day", "minLength": 1, "default": "2026-11-01"}}}`

	orderInput = `{"type": "object", "required": ["id", "country"], "properties": {
		"id": {"type": "string", "title": "Order", "minLength": 1, "default": "o-1"},
		"country": {"type": "string", "title": "Country", "enum": ["DE", "FR", "XX"],
			"description": "The carrier does not go to XX: then all is undone."}}}`

	transferInput = `{"type": "object", "required": ["from", "to", "cents"], "properties": {
		"from": {"type": "string", "title": "From", "minLength": 1, "default": "ada"},
		"to": {"type": "string", "title": "To", "minLength": 1, "default": "bob"},
		"cents": {"type": "integer", "title": "Cents", "minimum": 1, "default": 5000,
			"description": "More than 100000 is refused: then nothing is moved."}}}`

	ticketInput = `{"type": "object", "required": ["text"], "properties": {
		"text": {"type": "string", "title": "Question", "minLength": 1, "default": "Does it work?"}}}`

	statementsInput = `{"type": "object", "required": ["month", "accounts"], "properties": {
		"month": {"type": "string", "title": "Month", "minLength": 1, "default": "2026-12"},
		"accounts": {"type": "integer", "title": "Accounts", "minimum": 1, "maximum": 1000,
			"default": 60, "description": "Each is a step."},
		"millis": {"type": "integer", "title": "Milliseconds for each", "minimum": 0,
			"maximum": 60000, "default": 1000}}}`

	invoiceInput = `{"type": "object", "required": ["to", "cents"], "properties": {
		"to": {"type": "string", "title": "Mail address", "minLength": 1,
			"default": "ada@example.com",
			"description": "Without an @ it fails: it is tried three times, and then kept as a dead letter."},
		"cents": {"type": "integer", "title": "Cents", "minimum": 1, "default": 9900}}}`
)

func taking(contract, text string) perdure.About {
	return perdure.About{Description: text, Input: json.RawMessage(contract)}
}
