import { parseArgs } from "node:util";
import { type } from "./score.js";
import { serve } from "./server.js";
import { implement } from "./service.js";

const { values } = parseArgs({
  options: {
    listen: { type: "string", default: "127.0.0.1:9200" }, // HOST:PORT or unix:///PATH
    name: { type: "string", default: "zone" }, // of the service, in metrics
    type: { type: "string", default: type.name }, // under which configurations name it
  },
});

const running = await serve(values.listen, implement({ ...type, name: values.type }, values.name));
console.log(`${values.name}: grpc listening on ${running.address}`);
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void running.stop());
}
