// A headless Chromium, and pages that remember every complaint of their console.

import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import axe from 'axe-core'
import { chromium } from 'playwright-core'

import { withPalette } from './png.mjs'

const INSTALLED = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

/** An installed browser first, then one from a package, where that is there. */
async function executable() {
  const installed = [process.env.CHROMIUM, ...INSTALLED].find((path) => path && existsSync(path))
  if (installed) return installed
  try {
    const { default: packaged } = await import('@sparticuz/chromium')
    return await packaged.executablePath()
  } catch {
    throw new Error('no Chromium: install it, or set CHROMIUM to its path')
  }
}

export async function launch() {
  return chromium.launch({ executablePath: await executable(), args: ['--no-sandbox'] })
}

/** Looks that every page has: wide and narrow, light and dark. */
export const LOOKS = [
  { name: 'light', colorScheme: 'light', width: 1440, height: 900 },
  { name: 'dark', colorScheme: 'dark', width: 1440, height: 900 },
  { name: 'phone-light', colorScheme: 'light', width: 375, height: 812 },
  { name: 'phone-dark', colorScheme: 'dark', width: 375, height: 812 },
]

/** A page of a fresh context, and the list of its complaints: errors, and everything that the policy refused. */
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options })
  const page = await context.newPage()
  const complaints = []
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(`${page.url()}: ${message.text()}`)
  })
  page.on('pageerror', (error) => complaints.push(`${page.url()}: ${error.message}`))
  return { context, page, complaints }
}

/** Serious findings of the accessibility check, one line each. */
export async function findings(page) {
  // Evaluated by the browser's own door, which the page's policy does not close.
  await page.evaluate(axe.source)
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }))
  const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))
  return serious.map(({ id, nodes }) => `${page.url()} ${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' | ')}`)
}

/** The most of a page that a picture shows. */
const MAX_HEIGHT = 4200

/** A picture of the page, in the folder that SCREENSHOTS names, where it names one. */
export async function screenshot(page, name) {
  const folder = process.env.SCREENSHOTS
  if (!folder) return
  await mkdir(folder, { recursive: true })
  const { width, height } = await page.evaluate(() => {
    const { scrollWidth, scrollHeight } = document.documentElement
    return { width: scrollWidth, height: scrollHeight }
  })
  const clip = { x: 0, y: 0, width, height: Math.min(height, MAX_HEIGHT) }
  await writeFile(join(folder, `${name}.png`), withPalette(await page.screenshot({ fullPage: true, clip })))
}
