import { useQuery } from "@tanstack/react-query";
import { api, documentOf } from "./client";
import type { components } from "./schema";
import { useMe } from "./session";
import type { JsonSchema } from "../forms/schema";

export type CatalogModel = components["schemas"]["ModelShown"];
export type Modality = "image" | "video" | "audio" | "text" | "3d";

export const MODALITIES: readonly (readonly [Modality, string])[] = [
  ["image", "Pictures"],
  ["video", "Videos"],
  ["audio", "Sound"],
  ["text", "Text"],
  ["3d", "3D"],
];

const PAGE = 200;

/** Who made a model: the first part of its id. */
export function makerOf(id: string): string {
  return id.slice(0, id.indexOf("/"));
}

/** Every model that the workspace may run; searching it needs no further call. */
export function useCatalog() {
  const { workspace } = useMe();
  return useQuery({
    queryKey: ["catalog", workspace],
    queryFn: async () => {
      const models: CatalogModel[] = [];
      let cursor: string | undefined;
      do {
        const page = await documentOf(api.GET("/api/admin/v1/models", { params: { query: { workspace, limit: PAGE, cursor } } }));
        models.push(...page.items);
        cursor = page.next_cursor ?? undefined;
      } while (cursor);
      return models;
    },
    staleTime: 60_000,
  });
}

/** A model with its prices and the providers that serve it. */
export function useModel(provider: string, model: string) {
  const { workspace } = useMe();
  return useQuery({
    queryKey: ["model", workspace, provider, model],
    queryFn: () => documentOf(api.GET("/api/admin/v1/models/{provider}/{model}", { params: { path: { provider, model }, query: { workspace } } })),
    staleTime: 60_000,
  });
}

/** The keys that a workspace has at providers itself, without the keys. */
export function useProviderKeys(workspace: string) {
  return useQuery({
    queryKey: ["provider-keys", workspace],
    queryFn: () => documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/provider-keys", { params: { path: { workspace } } })),
  });
}

/** The schema of a model's body; `null` where none is written down, so any object is taken. */
export function useModelSchema(provider: string, model: string) {
  return useQuery({
    queryKey: ["schema", provider, model],
    queryFn: async (): Promise<JsonSchema | null> => {
      const document = (await documentOf(
        api.GET("/v2/models/{provider}/{model}/openapi.json", { params: { path: { provider, model } } }),
      )) as any;
      const operation = Object.values<any>(document.paths)[0]?.post;
      const isWritten = document["x-service-input-schema-authored"] !== false;
      return isWritten ? operation.requestBody.content["application/json"].schema : null;
    },
    staleTime: 300_000,
  });
}
