import { resolve } from 'node:path'
import { API, type Program, type Snapshot } from 'typescript/unstable/sync'
import type { SourceFile } from 'typescript/unstable/ast'

const root = resolve(import.meta.dirname, '..')

/** The project's sources as the compiler reads them. The compiler is a separate process, which runs until disposal. */
export class Sources implements Disposable {
  readonly #api: API
  readonly #snapshot: Snapshot
  readonly program: Program
  readonly checker

  constructor(tsconfig = 'tsconfig.build.json') {
    this.#api = new API({ cwd: root })
    this.#snapshot = this.#api.updateSnapshot({ openProjects: [resolve(root, tsconfig)] })
    const project = this.#snapshot.getProjects()[0]
    if (!project) throw new Error(`${tsconfig} is no project`)
    this.program = project.program
    this.checker = project.checker
  }

  /** The files below a folder of the project, in order, by their paths from the project's root. */
  *below(folder: string): Generator<{ readonly path: string; readonly source: SourceFile }> {
    for (const name of [...this.program.getSourceFileNames()].sort()) {
      const path = name.slice(root.length + 1)
      if (!name.startsWith(`${root}/`) || !path.startsWith(`${folder}/`)) continue
      yield { path, source: this.file(path) }
    }
  }

  /** One file, by its path from the project's root. */
  file(path: string): SourceFile {
    const source = this.program.getSourceFile(resolve(root, path))
    if (!source) throw new Error(`${path} is no file of the project`)
    return source
  }

  [Symbol.dispose](): void {
    this.#api.close()
  }
}
