'use client'
export type {
  ErasedThing,
  MemoriesSnapshot,
  NewThing,
  RememberedThing,
  ThingChanges,
  UsedThings,
} from './core/memories.ts'
export { useMemories } from './react/use-memories.ts'
export type { MemoriesResult } from './react/use-memories.ts'
