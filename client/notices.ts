'use client'
export type { Notice, NoticesSnapshot, Seen, UserEvent } from './core/notices.ts'
export { useNotices } from './react/use-notices.ts'
export type { NoticesResult, UseNoticesOptions } from './react/use-notices.ts'
