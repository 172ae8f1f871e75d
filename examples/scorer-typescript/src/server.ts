// A gRPC server with the contract and health, which ends without losing a call.
import * as grpc from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";
import { service, serviceName } from "./contract.js";

export interface Running {
  address: string;
  stop(): Promise<void>;
}

// serve listens on address, "HOST:PORT" or "unix:///PATH".
export async function serve(address: string, implementation: grpc.UntypedServiceImplementation): Promise<Running> {
  const server = new grpc.Server();
  const health = new HealthImplementation({ "": "SERVING", [serviceName]: "SERVING" });
  server.addService(service, implementation);
  health.addToServer(server);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(address, grpc.ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound)));
  });
  return {
    address: address.startsWith("unix:") ? address : address.replace(/:\d+$/, `:${port}`),
    async stop() {
      health.setStatus("", "NOT_SERVING"); // routers go elsewhere now,
      health.setStatus(serviceName, "NOT_SERVING");
      await new Promise<void>((resolve) => {
        const force = setTimeout(() => server.forceShutdown(), 1000); // their watches are cut off then,
        server.tryShutdown(() => {
          clearTimeout(force);
          resolve(); // and what was open is answered
        });
      });
    },
  };
}
