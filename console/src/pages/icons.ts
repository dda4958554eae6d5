import { AudioLines, Box, Clapperboard, FileText, Image, type LucideIcon } from "lucide-react";

/** What stands for each kind of thing that models make. */
export const ICONS: Record<string, LucideIcon> = { image: Image, video: Clapperboard, audio: AudioLines, text: FileText, "3d": Box };
