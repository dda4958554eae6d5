import { useInfiniteQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";

export interface PageOf<T> {
  items: T[];
  next_cursor: string | null;
}

interface Paged<T> {
  rows: T[];
  query: { data: unknown; error: unknown; refetch(): unknown };
  /** Load the next page, if there is one and none is under way. */
  more: () => void;
  hasMore: boolean;
  isLoadingMore: boolean;
}

/** A list of the administration API, page after page. The first page of a list nobody scrolled is looked at again and again. */
export function usePages<T>(key: readonly unknown[], fetchPage: (cursor: string | undefined) => Promise<PageOf<T>>, seconds = 0): Paged<T> {
  const query = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) => fetchPage(pageParam || undefined),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    refetchInterval: ({ state }) => (seconds > 0 && (state.data?.pages.length ?? 0) <= 1 ? seconds * 1000 : false),
    placeholderData: (before) => before,
  });
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) {
      void fetchNextPage();
    }
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  return { rows, query, more, hasMore: hasNextPage, isLoadingMore: isFetchingNextPage };
}
