package parley

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// mostDepth is how deep maps and arrays may lie within each other in what is read (R-LIM-8 asks
// for 32 at least); without a bound a frame of a few bytes a level could exhaust the stack.
const mostDepth = 64

// mostInteger is the greatest integer of the profile, 2^53-1.
const mostInteger = 1<<53 - 1

type kind uint8

const (
	nilKind kind = iota
	boolKind
	intKind
	floatKind
	textKind
	arrayKind
	mapKind
)

func (k kind) String() string {
	return [...]string{"nil", "a boolean", "an integer", "a number", "a text", "an array", "a map"}[k]
}

// value is one value of a message. A float without a fraction is an integer here (R-CONV-3).
type value struct {
	kind kind
	// bits is an integer, the bits of a float, or 1 for true.
	bits int64
	text string
	// items of an array; of a map keys and values in turn.
	items []value
}

func (v value) float() float64 {
	if v.kind == intKind {
		return float64(v.bits)
	}
	return math.Float64frombits(uint64(v.bits))
}

// get returns the value of a key of a map, nil if it is absent.
func (v value) get(key string) value {
	for i := 0; i+1 < len(v.items); i += 2 {
		if v.items[i].text == key {
			return v.items[i+1]
		}
	}
	return value{}
}

// plain returns the value as Go has it: nil, bool, int64, float64, string, []any, map[string]any.
func (v value) plain() any {
	switch v.kind {
	case boolKind:
		return v.bits != 0
	case intKind:
		return v.bits
	case floatKind:
		return v.float()
	case textKind:
		return v.text
	case arrayKind:
		items := make([]any, len(v.items))
		for i, item := range v.items {
			items[i] = item.plain()
		}
		return items
	case mapKind:
		pairs := make(map[string]any, len(v.items)/2)
		for i := 0; i+1 < len(v.items); i += 2 {
			pairs[v.items[i].text] = v.items[i+1].plain()
		}
		return pairs
	default:
		return nil
	}
}

// decode reads a frame, MessagePack or JSON text, and refuses what the profile of the protocol
// does not allow (R-ENC-2, R-ENC-13).
func decode(frame []byte) (value, error) {
	if len(frame) > 0 && frame[0] == '{' {
		return decodeJSON(frame)
	}
	message, rest, err := read(frame, mostDepth)
	switch {
	case errors.Is(err, msgp.ErrShortBytes):
		return value{}, malformed("the frame ends before its value does")
	case err != nil:
		return value{}, err
	case message.kind != mapKind:
		return value{}, malformed("the frame holds %s, not a map", message.kind)
	case len(rest) > 0:
		return value{}, malformed("%d bytes follow the message", len(rest))
	}
	return message, nil
}

func malformed(format string, arguments ...any) error {
	return &ProtocolError{Reason: fmt.Sprintf(format, arguments...)}
}

func read(b []byte, depth int) (value, []byte, error) {
	switch msgp.NextType(b) {
	case msgp.NilType:
		rest, err := msgp.ReadNilBytes(b)
		return value{}, rest, err
	case msgp.BoolType:
		is, rest, err := msgp.ReadBoolBytes(b)
		return ofBool(is), rest, err
	case msgp.IntType, msgp.UintType:
		return readInteger(b)
	case msgp.Float32Type:
		number, rest, err := msgp.ReadFloat32Bytes(b)
		return checked(float64(number), rest, err)
	case msgp.Float64Type:
		number, rest, err := msgp.ReadFloat64Bytes(b)
		return checked(number, rest, err)
	case msgp.StrType:
		text, rest, err := readText(b)
		return value{kind: textKind, text: text}, rest, err
	case msgp.ArrayType:
		length, rest, err := msgp.ReadArrayHeaderBytes(b)
		if err != nil {
			return value{}, b, err
		}
		return readItems(arrayKind, int(length), rest, depth-1)
	case msgp.MapType:
		length, rest, err := msgp.ReadMapHeaderBytes(b)
		if err != nil {
			return value{}, b, err
		}
		return readItems(mapKind, 2*int(length), rest, depth-1)
	case msgp.InvalidType:
		if len(b) == 0 {
			return value{}, b, msgp.ErrShortBytes
		}
		return value{}, b, malformed("byte %#x begins no value", b[0])
	default:
		return value{}, b, malformed("bin and ext are not of the profile")
	}
}

func readInteger(b []byte) (value, []byte, error) {
	number, rest, err := msgp.ReadInt64Bytes(b)
	if err != nil && !errors.Is(err, msgp.ErrShortBytes) || number > mostInteger || number < -mostInteger {
		return value{}, b, malformed("an integer beyond 2^53-1")
	}
	return value{kind: intKind, bits: number}, rest, err
}

func readText(b []byte) (string, []byte, error) {
	text, rest, err := msgp.ReadStringZC(b)
	if err == nil && !utf8.Valid(text) {
		err = malformed("a text that is not UTF-8")
	}
	return string(text), rest, err
}

// readItems reads items of an array, or keys and values of a map. It sets no more memory aside
// than the bytes at hand can fill: each item takes one at least.
func readItems(of kind, length int, b []byte, depth int) (value, []byte, error) {
	if depth < 0 {
		return value{}, b, malformed("maps and arrays lie deeper than %d", mostDepth)
	}
	if length > len(b) {
		return value{}, b, msgp.ErrShortBytes
	}
	items := make([]value, length)
	for i := range items {
		if of == mapKind && i%2 == 0 && msgp.NextType(b) != msgp.StrType {
			return value{}, b, malformed("a key that is no text")
		}
		var err error
		if items[i], b, err = read(b, depth); err != nil {
			return value{}, b, err
		}
	}
	return value{kind: of, items: items}, b, nil
}

func ofBool(is bool) value {
	if is {
		return value{kind: boolKind, bits: 1}
	}
	return value{kind: boolKind}
}

// checked takes a number that was written as a float for the integer that it is, if it is one.
func checked(number float64, rest []byte, err error) (value, []byte, error) {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return value{}, rest, malformed("a number that is not finite")
	}
	return ofFloat(number), rest, err
}

func ofFloat(number float64) value {
	if number == math.Trunc(number) && math.Abs(number) <= mostInteger {
		return value{kind: intKind, bits: int64(number)}
	}
	return value{kind: floatKind, bits: int64(math.Float64bits(number))}
}

// decodeJSON reads JSON text. encoding/json puts U+FFFD in the place of bytes that are no UTF-8
// and of halves of surrogate pairs; both are refused before it sees them.
func decodeJSON(frame []byte) (value, error) {
	if !utf8.Valid(frame) || halfSurrogate(frame) {
		return value{}, malformed("a text that is not UTF-8, or half a surrogate pair")
	}
	decoder := json.NewDecoder(bytes.NewReader(frame))
	decoder.UseNumber()
	var message any
	if err := decoder.Decode(&message); err != nil {
		return value{}, malformed("the frame is no JSON text: %v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return value{}, malformed("something follows the JSON text")
	}
	return ofJSON(message)
}

func ofJSON(from any) (value, error) {
	switch from := from.(type) {
	case nil:
		return value{}, nil
	case bool:
		return ofBool(from), nil
	case string:
		return value{kind: textKind, text: from}, nil
	case json.Number:
		return ofNumber(from)
	case []any:
		items := make([]value, 0, len(from))
		for _, item := range from {
			made, err := ofJSON(item)
			if err != nil {
				return value{}, err
			}
			items = append(items, made)
		}
		return value{kind: arrayKind, items: items}, nil
	case map[string]any:
		items := make([]value, 0, 2*len(from))
		for key, item := range from {
			made, err := ofJSON(item)
			if err != nil {
				return value{}, err
			}
			items = append(items, value{kind: textKind, text: key}, made)
		}
		return value{kind: mapKind, items: items}, nil
	default:
		return value{}, malformed("%T is nothing that JSON text holds", from)
	}
}

func ofNumber(number json.Number) (value, error) {
	if integer, err := number.Int64(); err == nil {
		if integer > mostInteger || integer < -mostInteger {
			return value{}, malformed("an integer beyond 2^53-1")
		}
		return value{kind: intKind, bits: integer}, nil
	}
	float, err := number.Float64()
	if err != nil {
		return value{}, malformed("%s is beyond all numbers", number)
	}
	return ofFloat(float), nil
}

// halfSurrogate tells whether JSON text holds an escape \uD800 to \uDFFF without its other half.
func halfSurrogate(frame []byte) bool {
	for at := 0; at < len(frame); at++ {
		if frame[at] != '\\' {
			continue
		}
		unit, ok := escapedUnit(frame[at:])
		switch {
		case !ok:
			at++ // another escape: what it escapes is no backslash of its own
		case !utf16.IsSurrogate(unit):
			at += 5
		default:
			other, ok := escapedUnit(frame[at+6:])
			if !ok || utf16.DecodeRune(unit, other) == utf8.RuneError {
				return true
			}
			at += 11
		}
	}
	return false
}

// escapedUnit reads \uXXXX.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	var unit rune
	if _, err := fmt.Sscanf(string(text[2:6]), "%04x", &unit); err != nil {
		return 0, false
	}
	return unit, true
}
