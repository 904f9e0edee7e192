/** What only Fastify has. */
import fastify from "fastify";
import { expect, it } from "vitest";
import { idempotent } from "../src/fastify.ts";
import { createSpace } from "./fixtures.ts";

it("works where requests are injected, with a body and without one", async () => {
  const { store } = await createSpace("SQLite");
  const safely = idempotent(store, { principal: () => null, required: false });
  const app = fastify();
  app.post(
    "/orders",
    safely((request, reply) => reply.code(201).send({ got: request.body ?? null })),
  );
  const inject = (headers: Record<string, string>, payload?: object) =>
    app.inject({ method: "POST", url: "/orders", headers, ...(payload !== undefined && { payload }) });
  for (const payload of [{ title: "Dune" }, undefined]) {
    const key = { "idempotency-key": payload === undefined ? "a" : "b" };
    for (const status of ["created", "replayed"]) {
      const response = await inject(key, payload);
      expect(response.statusCode).toBe(201);
      expect(response.json()).toEqual({ got: payload ?? null });
      expect(response.headers["idempotency-status"]).toBe(status);
    }
    expect((await inject({}, payload)).json()).toEqual({ got: payload ?? null });
  }
});
