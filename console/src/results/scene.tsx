import { useEffect, useRef, useState } from "react";
import {
  AmbientLight, Box3, Color, DirectionalLight, PerspectiveCamera, Scene as ThreeScene, Vector3, WebGLRenderer,
} from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import { GLTFLoader } from "three/addons/loaders/GLTFLoader.js";

/** A 3D model that can be turned by pointer and by arrow keys. Loaded only where there is one to show. */
export default function Scene({ url, label }: { url: string; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const host = box.current!;
    let renderer: WebGLRenderer;
    try {
      renderer = new WebGLRenderer({ antialias: true });
    } catch {
      setProblem("This browser cannot draw 3D. Save the file and open it in another program.");
      return;
    }
    const scene = new ThreeScene();
    scene.background = new Color(getComputedStyle(host).getPropertyValue("--surface-3").trim());
    scene.add(new AmbientLight(0xffffff, 1.4));
    const sun = new DirectionalLight(0xffffff, 2.2);
    sun.position.set(2, 4, 3);
    scene.add(sun);
    const camera = new PerspectiveCamera(40, 4 / 3, 0.01, 1000);
    const controls = new OrbitControls(camera, renderer.domElement);
    const draw = () => renderer.render(scene, camera);
    controls.addEventListener("change", draw);
    host.append(renderer.domElement);
    const fit = () => {
      const { width } = host.getBoundingClientRect();
      renderer.setPixelRatio(devicePixelRatio);
      renderer.setSize(width, width * 0.75);
      draw();
    };
    const watcher = new ResizeObserver(fit);
    watcher.observe(host);
    new GLTFLoader().load(
      url,
      ({ scene: model }) => {
        const bounds = new Box3().setFromObject(model);
        const centre = bounds.getCenter(new Vector3());
        const reach = bounds.getSize(new Vector3()).length() || 1;
        model.position.sub(centre);
        scene.add(model);
        camera.position.set(reach * 0.7, reach * 0.5, reach * 1.1);
        controls.update();
        draw();
      },
      undefined,
      () => setProblem("This 3D model cannot be shown. Save the file and open it in another program."),
    );
    return () => {
      watcher.disconnect();
      controls.dispose();
      renderer.dispose();
      renderer.domElement.remove();
    };
  }, [url]);
  return problem ? <p className="notice warn">{problem}</p> : <div ref={box} className="scene" role="img" aria-label={label} />;
}
