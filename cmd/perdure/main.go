// Command perdure runs durable workflows. An application that has workflows of
// its own calls [app.Main] with them instead.
package main

import "github.com/perdure/perdure/app"

func main() { app.Main() }
