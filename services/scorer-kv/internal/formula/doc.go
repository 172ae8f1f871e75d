// Package formula rates one endpoint by what it holds in GPU memory: KV-cache blocks
// and LoRA adapters. The formulas are those of the Inference Gateway's
// kv-cache-utilization-scorer and lora-affinity-scorer, with scores kept in 0..1.
package formula
