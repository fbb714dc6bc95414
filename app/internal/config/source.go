package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readFile adds what a file has.
func readFile(file string, found map[string]source) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return refuse("the configuration cannot be read: "+err.Error(), "--config names the file")
	}
	var root yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		return refuse(file+" is not YAML: "+err.Error(), "")
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return refuse(file+" has more than one document", "put all keys into the first one")
	}
	if len(root.Content) == 0 {
		return nil
	}
	return flatten(file, "", root.Content[0], found)
}

// flatten adds the keys of a node, which is below a prefix.
func flatten(file, prefix string, n *yaml.Node, found map[string]source) error {
	if n.Kind != yaml.MappingNode {
		return refuse(fmt.Sprintf("%s:%d: keys and values are needed here", file, n.Line),
			nearest(prefix))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := strings.TrimPrefix(prefix+"."+n.Content[i].Value, "."), n.Content[i+1]
		from := fmt.Sprintf("%s:%d", file, n.Content[i].Line)
		k, known := byName[name]
		_, twice := found[name]
		switch {
		case twice:
			return refuse(from+": "+name+" comes twice", "keep one of them")
		case !known && value.Kind == yaml.MappingNode && isSection(name):
			if err := flatten(file, name, value, found); err != nil {
				return err
			}
			continue
		case !known:
			return refuse(from+": there is no key "+name, nearest(name))
		case value.Kind == yaml.SequenceNode:
			s := source{list: []string{}, from: from}
			for _, item := range value.Content {
				if item.Kind != yaml.ScalarNode {
					return refuse(from+": "+name+" is a list of texts", k.About)
				}
				s.list = append(s.list, item.Value)
			}
			found[name] = s
		case value.Kind == yaml.ScalarNode:
			found[name] = source{text: value.Value, from: from}
		default:
			return refuse(from+": "+name+" is one value", k.About)
		}
	}
	return nil
}

func isSection(name string) bool {
	for i := range table {
		if strings.HasPrefix(table[i].Name, name+".") {
			return true
		}
	}
	return false
}

const envPrefix = "PERDURE_"

// isService reports whether Kubernetes sets a variable for a service that is called perdure.
func isService(name string) bool {
	return strings.HasPrefix(name, envPrefix+"SERVICE_") || name == envPrefix+"PORT" ||
		strings.HasPrefix(name, envPrefix+"PORT_")
}

// FileEnv is the variable that names the file of the configuration.
const FileEnv = envPrefix + "CONFIG"

// others are variables with the prefix that are no keys.
var others = map[string]bool{
	FileEnv: true, "PERDURE_TOKEN": true, "PERDURE_TOKEN_FILE": true,
}

// readEnvironment adds what variables have. Those of tests are left out.
func readEnvironment(environment []string, found map[string]source) error {
	for _, one := range environment {
		name, text, _ := strings.Cut(one, "=")
		if !strings.HasPrefix(name, envPrefix) || others[name] ||
			strings.HasPrefix(name, envPrefix+"TEST_") || isService(name) {
			continue
		}
		k, known := byEnv[name]
		if !known {
			return refuse("the variable "+name+" is no key", nearest(strings.ReplaceAll(
				strings.ToLower(strings.TrimPrefix(name, envPrefix)), "_", ".")))
		}
		found[k.Name] = source{text: text, from: name}
	}
	return nil
}
