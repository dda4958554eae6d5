import { useQuery } from "@tanstack/react-query";
import { api, documentOf } from "./client";
import type { components } from "./schema";
import type { JsonSchema } from "../forms/schema";

export type CatalogModel = components["schemas"]["ModelListEntry"];
export type Modality = "image" | "video" | "audio" | "text" | "3d";

export const MODALITIES: readonly (readonly [Modality, string])[] = [
  ["image", "Pictures"],
  ["video", "Videos"],
  ["audio", "Sound"],
  ["text", "Text"],
  ["3d", "3D"],
];

const PAGE = 100;

/** Every model that the caller may run; searching it needs no further call. */
export function useCatalog() {
  return useQuery({
    queryKey: ["catalog"],
    queryFn: async () => {
      const models: CatalogModel[] = [];
      let cursor: string | undefined;
      do {
        const page = await documentOf(api.GET("/v2/models", { params: { query: { limit: PAGE, cursor } } }));
        models.push(...page.data);
        cursor = page.next_cursor ?? undefined;
      } while (cursor);
      return models;
    },
    staleTime: 60_000,
  });
}

export function useModel(provider: string, model: string) {
  return useQuery({
    queryKey: ["model", provider, model],
    queryFn: () => documentOf(api.GET("/v2/models/{provider}/{model}", { params: { path: { provider, model } } })),
    staleTime: 60_000,
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
