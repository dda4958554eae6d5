import image from "./samples/procedural-image-1.webp";
import video from "./samples/procedural-video-1.webp";

/** Results of the built-in models, small: what somebody sees who has not run anything yet. */
export const SAMPLES: Readonly<Record<string, string>> = {
  "local/procedural-image-1": image,
  "local/procedural-video-1": video,
};
