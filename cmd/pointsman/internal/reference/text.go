package reference

import router "github.com/pointsman/pointsman/services/router/app"

func defaultText() string { return router.DefaultConfigText }

// pageHead is what stands above the plug-ins.
const pageHead = `<!-- Written by "make docs" from the code. Do not edit. -->
# Configuration

How requests are routed is said in an **EndpointPickerConfig**, the text that the Inference Gateway's endpoint picker
reads: plug-ins, and scheduling profiles that put them together. It is given to the router with ` + "`--configFile`" + ` or
` + "`--configText`" + `. Everything else — addresses, limits, who the endpoints are — is in the [settings files of the
services](#flags-of-the-router).

` + "```" + `
pointsman config check FILE     all faults with line and column; --router ADDRESS lets the live scorers check parameters
pointsman config print FILE     the configuration with nothing left out
pointsman config explain FILE   what each of its plug-ins does
pointsman config schema         a JSON Schema, for editors
pointsman config status         what a running router uses, and why a newer one was refused
` + "```" + `

` + "`config check`" + ` exits with 1 if there is a fault, and ` + "`config status`" + ` if the newest configuration was refused; with ` + "`-o json`" + ` or ` + "`--effective`" + ` the latter exits with 0, since
what was asked for is there. ` + "`config print`" + ` fills in the defaults of scorers as far as they tell them, and says in a comment where one does not. What it prints loads
to the same. The schema cannot tell whether references lead somewhere: ` + "`config check`" + ` does.

**Structure.** ` + "`apiVersion`" + ` is ` + "`inference.networking.x-k8s.io/v1alpha1`" + ` or ` + "`llm-d.ai/v1alpha1`" + `, ` + "`kind`" + ` is ` + "`EndpointPickerConfig`" + `; both must be there.
Names of fields are case-sensitive, names of parameters are not. Unknown fields, types, parameters and references are errors, and all faults
are told at once. A profile without a picker gets max-score-picker; one profile without a handler gets single-profile-handler; no profiles stand for
one of all plug-ins; a scorer without a weight weighs 1.

**Weights.** A candidate's total is the sum of weight × score over the profile's scorers. Scores are between 0 and 1. A scorer that has no
opinion of a candidate counts as its mean of the others, so that not knowing moves nobody. A negative weight prefers what the scorer rates low.
[Choosing weights](tuning.md) has measured figures.

**Changes.** The file is read again when it changes, also as a mounted ConfigMap, and on SIGHUP. A text that loads is used for every request that begins
from then on; requests under way finish by the one that they began with. A text that does not load is refused and the one before stays: the faults are in the log, in
` + "`pointsman config status`" + `, and counted in ` + "`pointsman_router_config_reloads_total{result=\"refused\"}`" + `. An emptied file is refused too.
` + "`--configReload=false`" + ` reads it at the start only; a text given with ` + "`--configText`" + ` stays until the router is restarted.

**Precedence** of settings: the defaults, the file named by ` + "`--config`" + `, ` + "`--set key=value`" + ` in their order, and flags of their own such as ` + "`--pool`" + `. Environment
variables are not read, except OpenTelemetry's.

# Plug-ins
`
