import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Prebuilt } from './packages.ts'

/** A file of a package as it was prebuilt: its path in the package, its size, and when it was written. */
export type SourceFile = readonly [path: string, bytes: number, writtenMs: number]

/** An entry of a package: its path in the package, and the prebuilt file that stands in its place. */
export type PrebuiltEntry = readonly [path: string, file: string]

/** What is known of a package that was prebuilt. */
export interface PrebuiltPackage extends Prebuilt {
  readonly entries: readonly PrebuiltEntry[]
  readonly files: readonly SourceFile[]
}

/** What is known of a group of packages. */
export interface PrebuiltList {
  readonly format: typeof listFormat
  readonly packages: readonly PrebuiltPackage[]
}

/** A list of another format was written by another version of this code, and counts as none. */
export const listFormat = 1

/** The name of a group's list. */
export const listFile = (group: string): string => `${group}.json`

/** How an import that leaves the prebuilt packages begins; then come the importing package, `!`, and what it imports. */
export const outsidePrefix = 'prebuilt-outside:'

/** The list of a group, or nothing where there is none that can be read. */
export function readList(folder: string, group: string): PrebuiltList | undefined {
  try {
    const list: PrebuiltList = JSON.parse(readFileSync(join(folder, listFile(group)), 'utf8'))
    return list.format === listFormat ? list : undefined
  } catch {
    return undefined
  }
}
