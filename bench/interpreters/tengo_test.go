package interpreters

import (
	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/stdlib"
)

func tengoModules() *tengo.ModuleMap { return stdlib.GetModuleMap("text") }
