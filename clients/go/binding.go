package parley

import (
	"fmt"
	"math"
	"reflect"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// field is one field of a message: where it stands in its struct, and what it is called.
type field struct {
	index    int
	name     string
	optional bool
}

// plan is how a struct is written: as a map of its fields, or as an array of them.
type plan struct {
	fields []field
	tuple  bool
}

// plans are made once a type.
var plans sync.Map

func planOf(kind reflect.Type) *plan {
	if made, ok := plans.Load(kind); ok {
		return made.(*plan)
	}
	made := &plan{}
	for index := range kind.NumField() {
		name, option, _ := strings.Cut(kind.Field(index).Tag.Get("wire"), ",")
		if option == "tuple" {
			made.tuple = true
			continue
		}
		made.fields = append(made.fields, field{index, name, option == "optional"})
	}
	plans.Store(kind, made)
	return made
}

var (
	eventType    = reflect.TypeFor[Event]()
	decisionType = reflect.TypeFor[Decision]()
	anyType      = reflect.TypeFor[any]()
	unions       = map[reflect.Type]map[string]reflect.Type{
		eventType: {
			"session.start":      reflect.TypeFor[SessionStart](),
			"job.submitted":      reflect.TypeFor[JobSubmitted](),
			"job.started":        reflect.TypeFor[JobStarted](),
			"job.ended":          reflect.TypeFor[JobEnded](),
			"node.down":          reflect.TypeFor[NodeDown](),
			"node.up":            reflect.TypeFor[NodeUp](),
			"timer.fired":        reflect.TypeFor[TimerFired](),
			"workload.exhausted": reflect.TypeFor[WorkloadExhausted](),
			"":                   reflect.TypeFor[UnknownEvent](),
		},
	}
)

// bind fills what a pointer points to from a value, and names the field that is wrong.
func bind(from value, into any, path string) error {
	return bindTo(from, reflect.ValueOf(into).Elem(), path)
}

func wrong(path, due string, from value) error {
	return &ProtocolError{Path: path, Reason: fmt.Sprintf("%s is due, not %s", due, from.kind)}
}

func bindTo(from value, into reflect.Value, path string) error {
	switch into.Kind() {
	case reflect.Int64:
		if from.kind != intKind {
			return wrong(path, "an integer", from)
		}
		if from.bits < 0 { // no server has anything negative to tell
			return &ProtocolError{Path: path, Reason: "is negative"}
		}
		into.SetInt(from.bits)
	case reflect.Float64:
		if from.kind != intKind && from.kind != floatKind {
			return wrong(path, "a number", from)
		}
		into.SetFloat(from.float())
	case reflect.String:
		if from.kind != textKind {
			return wrong(path, "a text", from)
		}
		into.SetString(from.text)
	case reflect.Bool:
		if from.kind != boolKind {
			return wrong(path, "a boolean", from)
		}
		into.SetBool(from.bits != 0)
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return bindTo(from, into.Elem(), path)
	case reflect.Slice:
		return bindSlice(from, into, path)
	case reflect.Map:
		return bindMap(from, into, path)
	case reflect.Struct:
		return bindStruct(from, into, path)
	case reflect.Interface:
		return bindInterface(from, into, path)
	default:
		panic("no field of a message is a " + into.Type().String())
	}
	return nil
}

func bindSlice(from value, into reflect.Value, path string) error {
	if from.kind != arrayKind {
		return wrong(path, "an array", from)
	}
	made := reflect.MakeSlice(into.Type(), len(from.items), len(from.items))
	for i, item := range from.items {
		if err := bindTo(item, made.Index(i), path); err != nil {
			return within(err, path, fmt.Sprint(i))
		}
	}
	into.Set(made)
	return nil
}

// within names the place of a fault more exactly: paths are made where something is wrong only.
func within(err error, path, part string) error {
	if fault, ok := err.(*ProtocolError); ok {
		fault.Path = path + "." + part + strings.TrimPrefix(fault.Path, path)
	}
	return err
}

func bindMap(from value, into reflect.Value, path string) error {
	if from.kind != mapKind {
		return wrong(path, "a map", from)
	}
	if into.Type().Elem() == anyType {
		into.Set(reflect.ValueOf(from.plain()))
		return nil
	}
	made := make(map[string]int64, len(from.items)/2)
	for i := 0; i+1 < len(from.items); i += 2 {
		amount := from.items[i+1]
		if amount.kind != intKind || amount.bits < 0 {
			return wrong(path+"."+from.items[i].text, "a natural number", amount)
		}
		made[from.items[i].text] = amount.bits
	}
	into.Set(reflect.ValueOf(made))
	return nil
}

func bindStruct(from value, into reflect.Value, path string) error {
	plan := planOf(into.Type())
	if plan.tuple {
		return bindTuple(from, into, plan, path)
	}
	if from.kind != mapKind {
		return wrong(path, "a map", from)
	}
	for _, field := range plan.fields {
		part := from.get(field.name)
		if part.kind == nilKind {
			if field.optional {
				continue
			}
			return &ProtocolError{Path: path + "." + field.name, Reason: "is missing"}
		}
		if err := bindTo(part, into.Field(field.index), path); err != nil {
			return within(err, path, field.name)
		}
	}
	return nil
}

func bindTuple(from value, into reflect.Value, plan *plan, path string) error {
	if from.kind != arrayKind || len(from.items) != len(plan.fields) {
		return wrong(path, fmt.Sprintf("an array of %d", len(plan.fields)), from)
	}
	for i, field := range plan.fields {
		if err := bindTo(from.items[i], into.Field(field.index), path); err != nil {
			return within(err, path, fmt.Sprint(i))
		}
	}
	return nil
}

func bindInterface(from value, into reflect.Value, path string) error {
	if into.Type() == anyType {
		into.Set(reflect.ValueOf(from))
		return nil
	}
	union := unions[into.Type()]
	named, ok := union[from.get("kind").text]
	if !ok {
		named = union[""]
	}
	made := reflect.New(named)
	into.Set(made)
	return bindTo(from, made.Elem(), path)
}

// pack writes a value as MessagePack behind the bytes.
func pack(b []byte, from any) ([]byte, error) {
	return packFrom(b, reflect.ValueOf(from))
}

func packFrom(b []byte, from reflect.Value) ([]byte, error) {
	switch from.Kind() {
	case reflect.Invalid:
		return msgp.AppendNil(b), nil
	case reflect.Int64, reflect.Int:
		if number := from.Int(); number > mostInteger || number < -mostInteger {
			return nil, &DecisionError{Reason: fmt.Sprintf("%d is beyond 2^53-1", number)}
		}
		return msgp.AppendInt64(b, from.Int()), nil
	case reflect.Float64:
		if math.IsNaN(from.Float()) || math.IsInf(from.Float(), 0) {
			return nil, &DecisionError{Reason: "a number is not finite"}
		}
		return msgp.AppendFloat64(b, from.Float()), nil
	case reflect.String:
		if !utf8.ValidString(from.String()) {
			return nil, &DecisionError{Reason: fmt.Sprintf("%q is not UTF-8", from.String())}
		}
		return msgp.AppendString(b, from.String()), nil
	case reflect.Bool:
		return msgp.AppendBool(b, from.Bool()), nil
	case reflect.Pointer, reflect.Interface:
		return packFrom(b, from.Elem())
	case reflect.Slice:
		return packSlice(b, from)
	case reflect.Map:
		return packMap(b, from)
	case reflect.Struct:
		return packStruct(b, from)
	default:
		return nil, &DecisionError{Reason: "nothing of a message is a " + from.Type().String()}
	}
}

func packSlice(b []byte, from reflect.Value) (_ []byte, err error) {
	b = msgp.AppendArrayHeader(b, uint32(from.Len()))
	for i := range from.Len() {
		if b, err = packFrom(b, from.Index(i)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// packMap writes keys in their order: the same message is the same bytes.
func packMap(b []byte, from reflect.Value) (_ []byte, err error) {
	keys := from.MapKeys()
	sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
	b = msgp.AppendMapHeader(b, uint32(len(keys)))
	for _, key := range keys {
		b = msgp.AppendString(b, key.String())
		if b, err = packFrom(b, from.MapIndex(key)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func packStruct(b []byte, from reflect.Value) (_ []byte, err error) {
	plan := planOf(from.Type())
	if plan.tuple {
		b = msgp.AppendArrayHeader(b, uint32(len(plan.fields)))
	} else {
		present := uint32(0)
		for _, field := range plan.fields {
			if !field.optional || !from.Field(field.index).IsNil() {
				present++
			}
		}
		b = msgp.AppendMapHeader(b, present)
	}
	for _, field := range plan.fields {
		part := from.Field(field.index)
		if field.optional && part.IsNil() {
			continue
		}
		if !plan.tuple {
			b = msgp.AppendString(b, field.name)
		}
		if b, err = packFrom(b, part); err != nil {
			return nil, err
		}
	}
	return b, nil
}
