// Package grafana has a dashboard for the metrics of package telemetry.
package grafana

import _ "embed"

// Dashboard is the JSON of the dashboard, to be imported into Grafana. Its data source is a
// Prometheus that asks the endpoint of package telemetry/prometheus.
//
//go:embed perdure.json
var Dashboard []byte
