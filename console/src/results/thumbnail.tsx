import { useEffect, useState } from "react";

/** An address for a blob, for as long as the component that shows it is there. */
export function useObjectUrl(blob: Blob | null): string | null {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    if (!blob) {
      setUrl(null);
      return;
    }
    const made = URL.createObjectURL(blob);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  return url;
}

export function Thumbnail({ blob, alt }: { blob: Blob; alt: string }) {
  const url = useObjectUrl(blob);
  return url && <img src={url} alt={alt} />;
}

const EDGE = 320;

/** A small picture of what was made, for the history; `null` for what cannot be drawn. */
export async function makeThumbnail(kind: string, source: Blob | string): Promise<Blob | null> {
  const url = typeof source === "string" ? source : URL.createObjectURL(source);
  try {
    const drawn = kind === "image" ? await loadImage(url) : kind === "video" ? await loadFrame(url) : null;
    if (!drawn) {
      return null;
    }
    const width = drawn instanceof HTMLVideoElement ? drawn.videoWidth : drawn.naturalWidth;
    const height = drawn instanceof HTMLVideoElement ? drawn.videoHeight : drawn.naturalHeight;
    const scale = Math.min(1, EDGE / Math.max(width, height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(width * scale));
    canvas.height = Math.max(1, Math.round(height * scale));
    canvas.getContext("2d")!.drawImage(drawn, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/webp", 0.8));
  } catch {
    return null; // a history without a picture is better than a result that is not kept
  } finally {
    if (typeof source !== "string") {
      URL.revokeObjectURL(url);
    }
  }
}

async function loadImage(url: string): Promise<HTMLImageElement> {
  const image = new Image();
  image.src = url;
  await image.decode();
  return image;
}

function loadFrame(url: string): Promise<HTMLVideoElement> {
  return new Promise((resolve, reject) => {
    const video = document.createElement("video");
    video.muted = true;
    video.preload = "auto";
    video.onloadeddata = () => {
      video.currentTime = Math.min(0.5, video.duration / 2 || 0);
    };
    video.onseeked = () => resolve(video);
    video.onerror = () => reject(new Error("The clip cannot be shown."));
    setTimeout(() => reject(new Error("The clip took too long.")), 5000);
    video.src = url;
  });
}
