import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { LogOut } from "lucide-react";
import { api, documentOf } from "../api/client";
import { useSession } from "../api/session";
import { Button, Loaded, PageHead } from "../components/basics";
import { useToasts } from "../components/toasts";
import { ago, dateTime } from "../format";

export function Sessions() {
  const queries = useQueryClient();
  const { signOut } = useSession();
  const { tell, tellFault } = useToasts();
  const sessions = useQuery({ queryKey: ["sessions"], queryFn: () => documentOf(api.GET("/api/admin/v1/sessions")) });
  const end = useMutation({
    mutationFn: (id: string) => documentOf(api.DELETE("/api/admin/v1/sessions/{session_id}", { params: { path: { session_id: id } } })),
    onSuccess: () => {
      tell("The session was ended.");
      void queries.invalidateQueries({ queryKey: ["sessions"] });
    },
    onError: tellFault,
  });
  return (
    <>
      <PageHead title="Your sessions">Where you are signed in. A session ends after twelve hours, or one hour without use.</PageHead>
      <Loaded query={sessions}>
        {({ items }) => (
          <div className="table-box">
            <table className="table cards">
              <thead>
                <tr>
                  <th scope="col">Browser</th>
                  <th scope="col">Address</th>
                  <th scope="col">Begun</th>
                  <th scope="col">Last used</th>
                  <th scope="col"><span className="visually-hidden">Actions</span></th>
                </tr>
              </thead>
              <tbody>
                {items.map((one) => (
                  <tr key={one.id}>
                    <td data-label="Browser">
                      <span>{browserOf(one.agent)} {one.is_current && <span className="tag accent">this one</span>}</span>
                    </td>
                    <td data-label="Address">{one.address ?? "–"}</td>
                    <td data-label="Begun">{dateTime(one.created_at)}</td>
                    <td data-label="Last used">{ago(one.seen_at)}</td>
                    <td className="end">
                      <Button size="small" icon={LogOut} isBusy={end.isPending && end.variables === one.id} onClick={() => (one.is_current ? void signOut() : end.mutate(one.id))}>
                        {one.is_current ? "Sign out" : "End"}
                      </Button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Loaded>
    </>
  );
}

const BROWSERS = ["Firefox", "Edg", "Chrome", "Safari"] as const;

function browserOf(agent: string | null): string {
  const found = BROWSERS.find((one) => agent?.includes(one));
  return found === "Edg" ? "Edge" : (found ?? agent?.slice(0, 60) ?? "Unknown");
}
