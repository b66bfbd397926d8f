// Measures cel-go on the expressions of ../cel.rs and prints a line "name nanoseconds" for each, which
// `cargo xtask bench cel` reads.
package main

import (
	"fmt"
	"math"
	"os"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

const (
	field   = `schema.spec.name + "-" + string(schema.spec.replicas)`
	mapped  = `items.map(x, x * 2)`
	chained = `items.filter(x, x % 2 == 0).map(x, x * 2).size()`
	all     = `items.all(x, x >= 0)`
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run() error {
	env, err := cel.NewEnv(
		cel.Variable("schema", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("items", cel.ListType(cel.IntType)),
		cel.OptionalTypes(),
		ext.Strings(),
		ext.Lists(),
		ext.Encoders(),
		ext.Bindings(),
		ext.TwoVarComprehensions(),
	)
	if err != nil {
		return err
	}
	items := make([]int64, 1000)
	for at := range items {
		items[at] = int64(at)
	}
	variables := map[string]any{
		"schema": map[string]any{"spec": map[string]any{"name": "web", "replicas": int64(3)}},
		"items":  items,
	}
	for _, each := range []struct{ name, expression string }{
		{"field", field}, {"map", mapped}, {"filter_map_size", chained}, {"all", all},
	} {
		ast, issues := env.Compile(each.expression)
		if issues.Err() != nil {
			return issues.Err()
		}
		// As kro and Kubernetes build theirs.
		program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize))
		if err != nil {
			return err
		}
		var failed error
		nanoseconds := measure(func() {
			if _, _, err := program.Eval(variables); err != nil {
				failed = err
			}
		})
		if failed != nil {
			return failed
		}
		fmt.Println(each.name, nanoseconds)
	}
	fmt.Println("parse_check", measure(func() { env.Compile(field) }))
	return nil
}

// measure gives the best mean of many short runs, in nanoseconds: short enough for some of them to have a core to
// themselves.
func measure(work func()) float64 {
	warm := 0
	for start := time.Now(); time.Since(start) < 100*time.Millisecond; warm++ {
		work()
	}
	batch := max(warm/25, 1)
	best := math.Inf(1)
	for run := 0; run < 150; run++ {
		start := time.Now()
		for at := 0; at < batch; at++ {
			work()
		}
		best = min(best, float64(time.Since(start).Nanoseconds())/float64(batch))
	}
	return best
}
