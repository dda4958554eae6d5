/** Node packs as somebody types them: names with commas between; none stands for every pack of the server. */
export function packsOf(text: string): string[] | null {
  const names = text.split(/[,\s]+/).filter(Boolean);
  return names.length > 0 ? names : null;
}
